/* changing.js: changes of the version that a page shows (If-Match): what somebody else changed meanwhile is not
 * overwritten. */
import { change, tagged } from "./api.js";

const TRIES = 5; /* while what is not shown goes on changing */

/* Sends a change of the version in `shown`, which tagged() gave. Gives null, or what the server has now where
 * differs(before, now): then nothing was changed. The entity tag also changes with what nobody overwrites, such as
 * counts and names; then the change is sent again. */
export async function changeShown(path, { shown, differs, method, content }, signal) {
  for (let left = TRIES, { etag } = shown; ; left--) {
    try {
      await change(method, path, signal, content, etag);
      return null;
    } catch (error) {
      if (error.status !== 412 || left <= 1) throw error;
      const now = await tagged(path, signal);
      if (differs(shown.document, now.document)) return now;
      ({ etag } = now);
    }
  }
}
