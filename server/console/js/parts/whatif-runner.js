// Asks one question at a time: a later one ends an earlier.

import { explainError } from "../api.js";
import { announce, replace } from "../dom.js";
import { isAborted, loading } from "./states.js";

/**
 * @param {HTMLElement} place where what is waited for, the answer or the error is shown
 * @param {AbortSignal} viewSignal ends the question with the view
 */
export function runner(place, viewSignal) {
  let running = null;

  /** Ends the question that is being asked, and clears the place. */
  function stop() {
    running?.abort();
    running = null;
    replace(place);
  }

  /**
   * @param {Object} question
   * @param {string} question.wait what is waited for at first
   * @param {function(AbortSignal, function(string)): Promise} question.load can say how far it is
   * @param {function(*): {shown: *, said: string}} question.draw what to show of the answer, and to announce
   * @param {function(Error): Node} question.fail
   * @returns {Promise<boolean>} whether no later question has taken its place
   */
  async function run({ wait, load, draw, fail }) {
    stop();
    const controller = new AbortController();
    running = controller;
    viewSignal.addEventListener("abort", () => controller.abort(), { once: true, signal: controller.signal });
    const isCurrent = () => running === controller && !viewSignal.aborted;
    const say = (text) => isCurrent() && replace(place, loading(text));
    say(wait);
    try {
      const answer = await load(controller.signal, say);
      if (isCurrent()) {
        const { shown, said } = draw(answer);
        replace(place, shown);
        announce(said);
      }
    } catch (error) {
      if (isCurrent() && !isAborted(error)) {
        replace(place, fail(error));
        announce(explainError(error));
      }
    }
    return isCurrent();
  }

  return { run, stop };
}
