/* Sets the colour scheme before the first paint; a classic script because modules run too late for that. Without a
 * choice of the reader's the system's preference holds (dashboard.css). */
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("deltaq-theme");
  } catch { /* storage may be forbidden: the system's preference then */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
