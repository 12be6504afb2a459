#!/usr/bin/env python3
"""Cuts Plotly.js down to the traces that the dashboard draws: scatter (in the core), bar, heatmap and contour.

    plotly_part.py WHOLE.js PART.js

The whole file is a table of modules that require each other, as browserify (Debian 12) or webpack (Debian 13) wrote it.
The list of traces that the root registers is shortened, and modules that nothing reaches any more are left out. What is
kept is kept to the letter; esbuild makes it small afterwards. Standard library only."""

import re
import sys

TRACES = ("bar", "heatmap", "contour")


class Bundle:
    """Text before the modules, {id: text of the module}, text behind them; `root`:
    id of the module that registers the traces."""

    def __init__(self, text):
        for pattern in (self.browserify, self.webpack):
            found = pattern(text)
            if found:
                self.head, self.modules, self.tail, self.needs, self.call = found
                self.root = next(name for name, body in self.modules.items() if "Plotly.register([" in body)
                return
        raise SystemExit("this is no bundle of browserify or webpack that is known here")

    @staticmethod
    def browserify(text):
        """1:[function(_dereq_,module,exports){ … },{"./x":2}],2:[function …"""
        opening = re.compile(r"^(?:.*?\(\{|\},\{[^\n]*\}\],)(\d+):\[function\(_dereq_,module,exports\)\{$", re.M)
        starts = [one for one in opening.finditer(text)]
        if len(starts) < 100:
            return None
        last = (text.index("\n},{}]},{},[", starts[-1].end()) if "\n},{}]},{},[" in text[starts[-1].end():]
                else text.rindex("\n},{"))
        ends = [one.start() for one in starts[1:]] + [last + 1]
        head = text[: starts[0].start(1)]
        modules, needs = {}, {}
        for number, (start, end) in enumerate(zip(starts, ends)):
            closing = text[end : text.index("\n", end)] if number + 1 < len(starts) else "},{}]"
            table = re.match(r"\},(\{.*?\})\]", closing)[1]
            needs[start[1]] = {name: one for name, one in re.findall(r'"([^"]*)":(\d+)', table)}
            modules[start[1]] = text[start.start(1) : end] + "}," + table + "]"
        return head, modules, text[last + 1 + len("},{}]") :], needs, lambda needed: needed

    @staticmethod
    def webpack(text):
        """/***/ 123: /***/ (function(module, exports, __webpack_require__) { … /***/ }),"""
        starts = list(re.finditer(r"^/\*\*\*/ (\d+):$", text, re.M))
        if len(starts) < 100:
            return None
        end = text.index("/******/ \t});", starts[-1].end())
        bounds = [one.start() for one in starts] + [end]
        modules = {one[1]: text[bounds[place] : bounds[place + 1]].rstrip().rstrip(",")
                   for place, one in enumerate(starts)}
        needs = {name: {f"__webpack_require__({one})": one for one in re.findall(r"__webpack_require__\((\d+)\)", body)}
                 for name, body in modules.items()}
        return text[: bounds[0]], modules, "\n\n" + text[end:], needs, None

    def kind(self, module):
        """Name of the trace that a module is, or passes on."""
        for _ in range(4):
            body = self.modules[module]
            named = re.search(r"^\s*name: ['\"](\w+)['\"]", body, re.M)
            if named and "moduleType: 'trace'" in body.replace('"', "'"):
                return named[1]
            passed = re.search(r"module\.exports = (?:_dereq_\('([^']+)'\)|(__webpack_require__\(\d+\)))", body)
            if not passed:
                return None
            module = self.needs[module][passed[1] or passed[2]]
        return None

    def shorten(self):
        """Leaves only TRACES in the root's list."""
        body = self.modules[self.root]
        start, end = (body.index("Plotly.register([") + len("Plotly.register(["),
                      body.index("]);", body.index("Plotly.register([")))
        listed = re.findall(r"_dereq_\('[^']+'\)|__webpack_require__\(\d+\)", body[start:end])
        kept = {}
        for call in listed:
            name = re.match(r"_dereq_\('([^']+)'\)", call)
            kept[self.kind(self.needs[self.root][name[1] if name else call])] = call
        missing = [name for name in TRACES if name not in kept]
        if missing:
            raise SystemExit(f"no trace {', '.join(missing)} in this bundle")
        body = body[:start] + ", ".join(kept[name] for name in TRACES) + body[end:]
        calls = set(re.findall(r"_dereq_\('([^']+)'\)|(__webpack_require__\(\d+\))", body))
        wanted = {one or other for one, other in calls}
        self.needs[self.root] = {name: one for name, one in self.needs[self.root].items() if name in wanted}
        if self.call:
            body = re.sub(r"\},\{.*\}\]$", "},{"
                          + ",".join(f'"{name}":{one}' for name, one in self.needs[self.root].items()) + "}]", body)
        self.modules[self.root] = body

    def reached(self):
        found, left = {self.root}, [self.root]
        while left:
            for one in self.needs[left.pop()].values():
                if one not in found and one in self.modules:
                    found.add(one)
                    left.append(one)
        return found

    def text(self):
        kept = self.reached()
        return self.head + ",\n".join(body for name, body in self.modules.items() if name in kept) + self.tail


def main(whole, part):
    with open(whole, encoding="utf-8") as file:
        bundle = Bundle(file.read())
    bundle.shorten()
    with open(part, "w", encoding="utf-8") as file:
        file.write(re.sub(r"\A/\*\*", "/*!", bundle.text()))  # its licence stays: esbuild keeps such comments


if __name__ == "__main__":
    main(*sys.argv[1:])
