/**
 * Calls of the API. Fields with their default value are left out of answers: read them with `?? 0` and the
 * like.
 */

import { ApiError, request } from "./http.js";

export { ApiError } from "./http.js";
export { events, streamState } from "./stream.js";

/**
 * Calls a method of the API.
 * @param {string} path for example `/v1/list-pending`
 * @param {Object} body the request
 * @param {{signal?: AbortSignal, timeout?: number}} options `timeout` in seconds
 * @returns {Promise<Object>}
 * @throws {ApiError}
 */
export async function call(path, body = {}, { signal, timeout } = {}) {
  const response = await request(timeout ? `${path}?timeout=${timeout}` : path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  return read(response, "json");
}

/**
 * Gets a document of the server.
 * @param {string} path
 * @param {{signal?: AbortSignal, as?: "json"|"text"|"buffer"}} options
 * @throws {ApiError}
 */
export async function get(path, { signal, as = "json" } = {}) {
  return read(await request(path, { signal }), as);
}

/**
 * What to tell people about an error; empty for a call that was given up.
 * @param {Error} error
 * @returns {string}
 */
export function explainError(error) {
  if (error?.name === "AbortError") {
    return "";
  }
  if (!(error instanceof ApiError)) {
    return `This page failed: ${error?.message ?? error}`;
  }
  const said = error.message;
  switch (error.status) {
    case 0:
      return "The server does not answer. It may be restarting, or the connection to it is gone.";
    case 401:
      return "The server asks for a token. Reload the page to enter one.";
    case 403:
      return `Your token does not allow this: ${said}`;
    case 429:
      return `The server is busy. Try again in ${error.retryAfter || "some"} seconds. (${said})`;
    case 504:
      return `The call took too long and was ended: ${said}`;
    default:
      return said;
  }
}

async function read(response, as) {
  try {
    if (as === "text") {
      return await response.text();
    }
    return await (as === "buffer" ? response.arrayBuffer() : response.json());
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiError({
      code: "UNREADABLE",
      message: "The connection broke before the whole answer had come.",
    });
  }
}
