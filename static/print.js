/* print.js: a figure alone on a page of its own size, for the browser's print dialog: saved as PDF there it keeps its
 * lines and texts. The dashboard writes no PDF itself. */
import { h } from "./dom.js";

let end = () => {};

/* `svg`: the figure; its size in CSS pixels. What stands on the page otherwise is not printed (dashboard.css). */
export async function printFigure(svg, width, height) {
  end();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  const image = h("img", { src: address, alt: "" });
  const place = h("div", { class: "on-paper", "aria-hidden": "true" }, image);
  const sheet = new CSSStyleSheet();
  /* A pixel more, for a page that is rounded down would need a second one. */
  sheet.replaceSync(`@page { size: ${width}px ${Math.ceil(height) + 1}px; margin: 0 }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  document.body.append(place);
  end = () => {
    place.remove();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    URL.revokeObjectURL(address);
    end = () => {};
  };
  try {
    await image.decode();
  } catch (error) {
    end();
    throw error;
  }
  addEventListener("afterprint", () => end(), { once: true });
  print();
}
