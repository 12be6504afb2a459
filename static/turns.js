/* turns.js: of several readings of one thing the last that began counts, in whatever order the answers come. */

/* `begin()` at the start of a reading gives a function that says whether none has begun since. */
export function turns() {
  let last = 0;
  return function begin() {
    const own = ++last;
    return () => own === last;
  };
}
