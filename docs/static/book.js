// The theme's arrows that unfold a chapter in the side bar have no name for a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll(".toctree-l1 > details > summary")) {
    arrow.setAttribute("aria-label", `pages of: ${arrow.closest("li").querySelector("a").textContent}`);
  }
});
