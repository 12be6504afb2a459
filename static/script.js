/* script.js: programs of others that `make static` fetches, loaded when the first page needs them. */
const loaded = new Map();

/* Path of a file that is served beside this one: below an address that changes with the files (static_files.h). */
export function beside(file) {
  return new URL(file, import.meta.url).pathname;
}

/* What the classic script `file` beside this one leaves in the global `name`. Rejected when it is not there; the next
 * call asks again. */
export function script(file, name) {
  if (!loaded.has(file)) {
    loaded.set(file, new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = beside(file);
      element.onload = () => resolve(globalThis[name]);
      element.onerror = () => {
        loaded.delete(file);
        element.remove();
        reject(new Error(`${file} is not there`));
      };
      document.head.append(element);
    }));
  }
  return loaded.get(file);
}
