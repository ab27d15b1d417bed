/** Light, dark, or as the system has it. */

import { announce } from "../dom.js";
import { keep, kept } from "../kept.js";

const KEPT = "berth-theme";
const THEMES = ["system", "light", "dark"];

/** @param {HTMLButtonElement} button */
export function startTheme(button) {
  let theme = THEMES.find((one) => one === kept("localStorage", KEPT)) ?? "system";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    document.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep("localStorage", KEPT, theme);
    apply();
    announce(`Theme: ${theme}`);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}
