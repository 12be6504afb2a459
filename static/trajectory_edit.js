/* trajectory_edit.js: a panel that renames, annotates, archives and deletes a trajectory. */
import { at, change } from "./api.js";
import { sureButton } from "./controls.js";
import { fill, h } from "./dom.js";
import { plural } from "./format.js";
import { failure } from "./notice.js";

/* `done()` is told when the trajectory was changed, `close()` when the panel is not wanted any more. */
export function editPanel(trajectory, { done, close }, signal) {
  const wrong = h("div"), path = at("trajectories", trajectory.name);
  const name = h("input", {
    id: "edit-name", value: trajectory.name, required: true, maxlength: 200, autocomplete: "off", spellcheck: "false",
  });
  const notes = h("textarea", { id: "edit-notes", rows: 3, maxlength: 10000 });
  notes.value = trajectory.notes ?? "";
  const trying = (work) => async () => {
    try {
      await work();
      await done();
    } catch (error) { if (!signal.aborted) fill(wrong, failure(error)); }
  };
  const keep = trying(() => {
    const given = { notes: notes.value.trim() || null };
    if (name.value !== trajectory.name) given.name = name.value;
    return change("PATCH", path, signal, given);
  });
  const archive = trying(() => change("PATCH", path, signal, { archived: !trajectory.archived }));
  const remove = trying(() => change("DELETE", path, signal));
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
