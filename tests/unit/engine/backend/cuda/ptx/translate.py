#!/usr/bin/env python3
"""translate.py KERNELS.ptx OUT.c: PTX, as nvcc makes it of plugin/kernels.cu, becomes C: a function for each kernel,
which runs one thread up to its next barrier. An instruction add.s64 becomes a call of add_s64 (instructions.h): one
that is not there is an error of the C compiler. What has to do with control, memory and names is written here. Whatever
is not understood stops the translation."""

import re
import sys

REGISTER_TYPES = {".pred": "bool", ".b16": "uint16_t", ".b32": "uint32_t", ".b64": "uint64_t", ".f32": "float",
                  ".f64": "double"}
SPECIAL = {"%tid.x": "t->thread", "%ctaid.x": "t->block", "%ntid.x": "KERNEL_THREADS", "%nctaid.x": "t->blocks"}
# bytes nobody has between two arrays of shared memory: a step beside one array is not a step into the next
BETWEEN = 256
# what a warp does together (warp.h), with the number of its operands that are registers
TOGETHER = {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": 14, "shfl.sync.bfly.b32": 2,
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16": 4, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": 4}


class Kernel:
    def __init__(self, mangled):
        length, rest = re.match(r"_Z(\d+)(.*)", mangled).groups()
        self.mangled, self.name = mangled, rest[: int(length)].removeprefix("device_")
        self.registers, self.shared, self.local, self.parameter = [], [], [], 0
        self.symbols, self.lines, self.barriers = {}, [], 0

    def place(self, space, name, align, size):
        """An array's offset in its space."""
        arrays = self.shared if space == "shared" else self.local
        end = arrays[-1][1] + arrays[-1][2] if arrays else 0
        at = (end + BETWEEN + int(align) - 1) // int(align) * int(align) if arrays or space == "shared" else 0
        arrays.append((name, at, int(size)))
        self.symbols[name] = at

    def operand(self, text):
        """A register, a symbol or a number as C has it."""
        if text in SPECIAL:
            return SPECIAL[text]
        if text in ("%SP", "%SPL", "%tmp"):
            return f"r->{text[1:]}"
        found = re.fullmatch(r"%([a-z]+)(\d+)", text)
        if found:
            return f"r->{found.group(1)}[{found.group(2)}]"
        if text in self.symbols:
            return f"{self.symbols[text]}u"
        if re.fullmatch(r"0[fF][0-9A-F]{8}", text):
            return f"f_of_r(0x{text[2:]}u)"
        if re.fullmatch(r"0[dD][0-9A-F]{16}", text):
            return f"fd_of_rd(0x{text[2:]}u)"
        if re.fullmatch(r"-?\d+", text):
            return text if abs(int(text)) < 1 << 31 else f"INT64_C({text})" if int(text) > -(1 << 63) else "INT64_MIN"
        raise ValueError(f"operand {text}")

    def address(self, text):
        base, _, offset = text.strip("[]").partition("+")
        return f"(uint64_t){self.operand(base)}" + (f" + (uint64_t)INT64_C({offset})" if offset else "")

    def memory(self, name, operands, number):
        """ld and st; a vector is its elements one after the other, but must lie at a multiple of its own size."""
        parts = name.split(".")
        space = parts[1] if parts[1] in ("global", "shared", "local", "param") else "generic"
        kind, wide = parts[-1], next((int(part[1:]) for part in parts if part in ("v2", "v4")), 1)
        if set(parts[1:]) - {space, kind, f"v{wide}"}:
            raise ValueError(f"memory access {name}")
        address = self.address(operands[0] if parts[0] == "st" else operands[-1])
        values = operands[1:] if parts[0] == "st" else operands[:-1]
        size = int(kind[1:]) // 8
        if wide > 1:
            yield f"ptx_aligned(t, {address}, {size * wide}, {number});"
        for i, value in enumerate(values):
            place = f"t, PTX_{space.upper()}, {address}" + (f" + {i * size}" if i > 0 else "")
            if parts[0] == "st":
                yield f"st_{kind}({place}, {self.operand(value)}, {number});"
            else:
                yield f"{self.operand(value)} = ld_{kind}({place}, {number});"

    def move(self, operands, split):
        """mov: bits, whatever the registers' kinds;
        {low, high} on either side, where %temp is the half that nobody wants."""
        kinds = [(re.findall(r"%(fd|f|rd|r)\d+$", text) or [""])[0] for text in operands]
        values = [self.operand(text) if text != "%temp" else "" for text in operands]
        if split:
            return "".join(f"{to} = {half}_{kinds[2]}({values[2]}); "
                           for half, to in zip(("low", "high"), values) if to)
        if len(operands) == 3:
            return f"{values[0]} = halves_{kinds[0]}({values[1]}, {values[2]});"
        convert = {("f", "r"): "f_of_r", ("r", "f"): "r_of_f", ("fd", "rd"): "fd_of_rd",
                   ("rd", "fd"): "rd_of_fd"}.get(tuple(kinds), "")
        return f"{values[0]} = {convert}({values[1]});"

    def together(self, name, operands, number):
        """The thread stops here, and goes on when its warp has done it with the registers' addresses and numbers."""
        self.barriers += 1
        registers = [self.operand(text.split("|")[0]) for text in operands[: TOGETHER[name]]]
        numbers = [f"(uint32_t){self.operand(text.strip('[]'))}" for text in operands[TOGETHER[name]:]]
        addresses = ", ".join("&" + register for register in registers)
        self.lines.append(f"t->together = (struct ptx_together){{{name.replace('.', '_')}, {{{addresses}}}, "
                          f"{{{', '.join(numbers) or 0}}}, {number}}};")
        self.lines.append(f"t->at = {self.barriers}; return -{number}; case {self.barriers}:;")

    def instruction(self, text, number):
        found = re.fullmatch(r"(?:@(!?)(%p\d+) )?([a-z][\w.]*)\s*(.*);", text)
        if not found:
            raise ValueError("instruction")
        negated, guard, name, rest = found.groups()
        self.lines.append(f"if ({negated}{self.operand(guard)}) {{" if guard else "{")
        operands = [part.strip() for part in re.sub(r"[{}]", "", rest).split(",")] if rest else []
        operation = name.split(".")[0]
        if operation in ("ld", "st"):
            self.lines += self.memory(name, operands, number)
        elif operation == "bra":
            self.lines.append(f"goto {operands[0].strip('$')};")
        elif name == "ret":
            self.lines.append("return 0;")
        elif name == "bar.sync" and operands == ["0"] and not guard:
            self.barriers += 1
            self.lines.append(f"t->at = {self.barriers}; return {number}; case {self.barriers}:;")
        elif name in TOGETHER and not guard:
            self.together(name, operands, number)
        elif operation == "mov":
            self.lines.append(self.move(operands, rest.startswith("{")))
        else:
            call = f"{name.replace('.', '_')}({', '.join(map(self.operand, operands[1:]))})"
            self.lines.append(f"{self.operand(operands[0])} = {call};")
        self.lines.append("}")

    def line(self, text, number):
        text = re.sub(r"^\{ (?=\.)|(?<=;) \}$", "", text)  # nvcc's own scopes hold a register that is used there alone
        if re.fullmatch(r"\{|\}|\.pragma .*|\.reg \.b32 %temp;|\.maxntid 256, 1, 1|\.minnctapersm \d+|\)", text):
            return
        found = re.fullmatch(r"\.param \.align \d+ \.b8 (\w+)\[(\d+)\]", text)
        if found:
            self.symbols[found.group(1)], self.parameter = 0, int(found.group(2))
            return
        found = re.fullmatch(r"\.(shared|local) \.align (\d+) \.b8 (\w+)\[(\d+)\];", text)
        if found:
            space, align, name, size = found.groups()
            return self.place(space, name, align, size)
        found = re.fullmatch(r"\.reg (\.\w+) %(\w+)(<\d+>)?;", text)
        if found:
            kind, name, count = found.groups()
            declared = f"{REGISTER_TYPES[kind]} {name}{'[' + count[1:-1] + ']' if count else ''};"
            self.registers += [declared] if declared not in self.registers else []
            return
        found = re.fullmatch(r"\$(\w+):", text)
        if found:
            self.lines.append(f"{found.group(1)}:;")
        else:
            self.instruction(text, number)

    def write(self, out):
        registers = f"registers_{self.name}"
        out.write(f"\nstruct {registers} {{\n{chr(10).join(self.registers)}\n}};\n")
        out.write(f"static int run_{self.name}(struct ptx_thread *t)\n{{\nstruct {registers} *r = t->registers;\n"
                  f"switch (t->at) {{\ncase 0:;\n")
        out.write("\n".join(self.lines) + "\n}\nreturn 0;\n}\n")
        out.write(f"static const struct ptx_array shared_{self.name}[] = {{\n")
        for name, at, size in self.shared:
            short = re.search(r"E\d+(\w+)$", name)
            out.write(f'{{"{short.group(1) if short else name}", {at}, {size}}},\n')
        out.write("{NULL, 0, 0}};\n")

    def row(self):
        local = self.local[-1][1] + self.local[-1][2] if self.local else 0
        return (f'[KERNEL_{self.name}] = {{"{self.name}", run_{self.name}, sizeof(struct registers_{self.name}), '
                f"{self.parameter}, {local}, shared_{self.name}}},\n")


def kernels(text):
    kernel = None
    for number, line in enumerate(text.splitlines(), 1):
        line = " ".join(line.split("//")[0].split())
        found = re.fullmatch(r"(?:\.visible )?\.entry (\w+)\(", line)
        if found:
            kernel, depth = Kernel(found.group(1)), 0
        elif kernel is not None and line:
            depth += (line == "{") - (line == "}")
            try:
                kernel.line(line, number)
            except (ValueError, KeyError) as error:
                sys.exit(f"line {number}: not understood ({error}): {line}")
            if line == "}" and depth == 0:
                yield kernel
                kernel = None
        elif line and not re.match(r"\.(version|target|address_size) ", line):
            sys.exit(f"line {number}: not understood outside a kernel: {line}")


def main():
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as out:
        out.write('#include "engine/backend/cuda/ptx/warp.h"\n')
        rows = []
        for kernel in kernels(source.read()):
            kernel.write(out)
            rows.append(kernel.row())
        out.write(f"\nconst struct ptx_kernel ptx_kernels[KERNEL_COUNT] = {{\n{''.join(rows)}}};\n")


main()
