/* trajectory_edit.js: a panel that renames, annotates, archives and deletes a trajectory. Every change names the
 * version that the panel shows (If-Match): what somebody else changed meanwhile is shown and not overwritten. */
import { at, tagged } from "./api.js";
import { changeShown } from "./changing.js";
import { sureButton } from "./controls.js";
import { fill, h } from "./dom.js";
import { integer, plural } from "./format.js";
import { attempt } from "./notice.js";

/* What the panel shows. The entity tag also changes with the counts of runs, which nobody overwrites. */
const SHOWN = {
  name: ["Name", (value) => value],
  notes: ["Notes", (value) => value || "none"],
  archived: ["Archived", (value) => (value ? "yes" : "no")],
  checkpoints: ["Checkpoints", integer],
};

/* The trajectory as the server has it: {document, etag}. By its id: another one may have been given its name. */
export function readTrajectory(id, signal) {
  return tagged(at("trajectories", id), signal);
}

function differences(before, now) {
  return Object.keys(SHOWN).filter((field) => (before[field] ?? null) !== (now[field] ?? null));
}

/* What somebody else changed, and the way to it. */
function overtaken(before, now, reload) {
  const line = (field) => {
    const [label, words] = SHOWN[field];
    return h("li", {}, `${label}: ${words(now[field])} (before: ${words(before[field])})`);
  };
  const button = h("button", { type: "button", id: "edit-reload", events: { click: reload } }, "Show it as it is now");
  return h("div", { class: "notice problem", role: "alert" },
    h("strong", {}, "Somebody else changed this trajectory meanwhile"),
    h("p", {}, "Nothing was saved. It is now:"),
    h("ul", {}, differences(before, now).map(line)),
    h("p", {}, button, " What you typed goes then."));
}

/* `shown`: what readTrajectory() gave. `done()` is told when the trajectory was changed, `close()` when the panel is
 * not wanted any more, `reload(shown)` when another version is to be edited. */
export function editPanel(shown, { done, close, reload }, signal) {
  const trajectory = shown.document, wrong = h("div");
  const name = h("input", {
    id: "edit-name", value: trajectory.name, required: true, maxlength: 200, autocomplete: "off", spellcheck: "false",
  });
  const notes = h("textarea", { id: "edit-notes", rows: 3, maxlength: 10000 });
  notes.value = trajectory.notes ?? "";
  const trying = (method, content) => attempt(wrong, signal, async () => {
    const now = await changeShown(at("trajectories", trajectory.id),
      { shown, differs: (before, found) => differences(before, found).length > 0, method, content: content?.() },
      signal);
    if (now) fill(wrong, overtaken(trajectory, now.document, () => reload(now)));
    else await done();
  });
  const keep = trying("PATCH", () => {
    const given = { notes: notes.value.trim() || null };
    return name.value === trajectory.name ? given : { ...given, name: name.value };
  });
  const archive = trying("PATCH", () => ({ archived: !trajectory.archived }));
  const remove = trying("DELETE");
  const lost = `${plural(trajectory.checkpoints, "checkpoint")} and what was measured of them go; files and runs stay.`;
  const button = (id, label, press) => h("button", { type: "button", id, events: { click: press } }, label);
  return h("form", {
    class: "panel edit", "aria-label": `Edit ${trajectory.name}`,
    events: { submit: (event) => { event.preventDefault(); keep(); } },
  },
  h("label", { for: "edit-name" }, "Name"), name,
  h("label", { for: "edit-notes" }, "Notes"), notes, wrong,
  h("div", { class: "row actions" },
    h("button", { type: "submit", class: "button", id: "edit-save" }, "Save"),
    button("edit-archive", trajectory.archived ? "Bring back" : "Archive", archive),
    sureButton("edit-delete", "Delete", lost, remove),
    button("edit-close", "Close", close)));
}
