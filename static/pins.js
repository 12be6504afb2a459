/* pins.js: the checkpoint that is kept at hand to compare another one with. For this tab only. */
import { checkpoint as known } from "./api.js";
import { fill, h } from "./dom.js";
import { link } from "./router.js";

const PIN = "deltaq-pin";

export function pinned() {
  try { return sessionStorage.getItem(PIN); } catch { return null; }
}

function pin(id) {
  try {
    if (id) sessionStorage.setItem(PIN, id);
    else sessionStorage.removeItem(PIN);
  } catch { /* storage forbidden: the link to compare can still be written by hand */ }
}

export function compareLink(a, b) {
  return link("/compare", { a, b });
}

/* "Pin" where nothing is pinned, else the way to the comparison. */
export function pinButton(checkpoint) {
  const place = h("span", { class: "row pin" });
  const show = async () => {
    const other = pinned();
    const press = (id) => { pin(id); show(); };
    const button = (label, id) => h("button", {
      type: "button", id: "pin", class: "small", events: { click: () => press(id) },
    }, label);
    if (other === checkpoint.id) {
      const words = h("span", { class: "muted" }, "pinned; open another checkpoint to compare");
      return fill(place, words, button("Unpin", null));
    }
    if (other === null) return fill(place, button("Pin to compare", checkpoint.id));
    const found = await known(other);
    if (!found) {
      pin(null);
      return show();
    }
    const home = found.trajectory === checkpoint.trajectory ? "" : `${found.trajectory}/`;
    const way = { href: compareLink(other, checkpoint.id), id: "compare-pinned" };
    return fill(place, h("a", way, `Compare with ${home}${found.name}`), button("Pin this instead", checkpoint.id));
  };
  show();
  return place;
}
