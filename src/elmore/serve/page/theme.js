// Light or dark: as the system has it, until the reader chooses. Runs before the page is painted.

document.documentElement.dataset.theme = localStorage.getItem("elmore-theme") ?? "";

function switchTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  localStorage.setItem("elmore-theme", root.dataset.theme);
}
