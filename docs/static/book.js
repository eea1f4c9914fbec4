// Names for a screen reader where the theme has none, or another one than it shows.
document.addEventListener("DOMContentLoaded", () => {
  for (const arrow of document.querySelectorAll(".toctree-l1 > details > summary")) {
    arrow.setAttribute("aria-label", `pages of: ${arrow.closest("li").querySelector("a").textContent}`);
  }
  for (const title of document.querySelectorAll("details.hide > summary[aria-label]")) {
    title.removeAttribute("aria-label"); // the title that is shown is the better name
  }
  for (const button of document.querySelectorAll("button.search-button__button")) {
    const shown = button.innerText.replace(/\s+/g, " ").trim();
    if (shown) button.setAttribute("aria-label", shown);
  }
});
