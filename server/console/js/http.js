/** Requests to the server that this page came from, with the reader's token if there is one. */

/** In memory only: a page that is loaded again asks again. */
let token = "";
let askForToken = () => Promise.reject(new Error("nobody can be asked for a token"));
let asking = null;
let isDeclined = false;

/** A call that did not succeed. `status` is 0 if no answer came. */
export class ApiError extends Error {
  constructor({ status = 0, code = "", message = "", field = "", retryAfter = 0 }) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, field, retryAfter });
  }
}

/**
 * Sets who is asked for a token after a 401.
 * @param {function(boolean): Promise<string>} ask the argument says that a token was
 *   refused
 */
export function onUnauthorized(ask) {
  askForToken = ask;
}

/**
 * Fetches, with the token; after a 401 asks for another token and repeats the request. A request in the
 * background, which nobody has just caused, does not ask again somebody who has declined.
 * @returns {Promise<Response>} a response with a status below 400
 * @throws {ApiError}
 */
export async function request(path, { isBackground = false, ...options } = {}) {
  for (;;) {
    const sent = token;
    const response = await attempt(path, options, sent);
    if (response.ok) {
      return response;
    }
    const error = await errorOf(response);
    const mayAsk = error.status === 401 && !(isBackground && isDeclined && token === sent);
    if (!mayAsk || !(await haveAnotherToken(sent))) {
      throw error;
    }
  }
}

async function attempt(path, options, sent) {
  const headers = new Headers(options.headers);
  if (sent) {
    headers.set("Authorization", `Bearer ${sent}`);
  }
  try {
    return await fetch(path, { ...options, headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiError({ code: "UNREACHABLE", message: "The server does not answer." });
  }
}

/** Calls that fail at the same time ask once. */
async function haveAnotherToken(refused) {
  if (token !== refused) {
    return true;
  }
  asking ??= askForToken(refused !== "").finally(() => (asking = null));
  try {
    token = await asking;
    isDeclined = false;
    return true;
  } catch {
    isDeclined = true;
    return false;
  }
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  let body = {};
  try {
    body = JSON.parse(text).error ?? {};
  } catch {
    // Something other than Berth, such as a proxy, has answered.
  }
  const message = body.message ?? (text.slice(0, 300) || `The server answered ${response.status}.`);
  return new ApiError({
    status: response.status,
    code: body.code ?? "",
    message,
    field: body.field,
    retryAfter,
  });
}
