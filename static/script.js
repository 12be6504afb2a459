/* script.js: programs of others that `make static` fetches, loaded when the first page needs them. */
const loaded = new Map();

/* What the classic script at `path` leaves in the global `name`. Rejected when it is not there; the next call asks
 * again. */
export function script(path, name) {
  if (!loaded.has(path)) {
    loaded.set(path, new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = path;
      element.onload = () => resolve(globalThis[name]);
      element.onerror = () => {
        loaded.delete(path);
        element.remove();
        reject(new Error(`${path} is not there`));
      };
      document.head.append(element);
    }));
  }
  return loaded.get(path);
}
