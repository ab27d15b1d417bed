// Long texts in an address: deflated, in the letters of base64url.

/** Texts beyond this size are not unpacked: an address can come from anybody. */
const MAX_BYTES = 1 << 20;

class TooLarge extends Error {}

const toBase64Url = (bytes) => {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};

const fromBase64Url = (text) => {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
};

async function collect(stream) {
  const parts = [];
  let size = 0;
  for (const reader = stream.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) {
      break;
    }
    size += value.length;
    if (size > MAX_BYTES) {
      await reader.cancel();
      throw new TooLarge("A text in the address is larger than 1 MiB.");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/**
 * The text in a form for the query of an address; empty for an empty text.
 * @param {string} text
 * @returns {Promise<string>}
 */
export async function pack(text) {
  if (!text) {
    return "";
  }
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return toBase64Url(new Uint8Array(await new Response(stream).arrayBuffer()));
}

/**
 * The text that `pack` made this of.
 * @param {string | null} packed
 * @returns {Promise<string>}
 */
export async function unpack(packed) {
  if (!packed) {
    return "";
  }
  let bytes;
  try {
    const stream = new Blob([fromBase64Url(packed)]).stream();
    bytes = await collect(stream.pipeThrough(new DecompressionStream("deflate-raw")));
  } catch (error) {
    if (error instanceof TooLarge) {
      throw error;
    }
    throw new Error("A text in the address is damaged: the address may have been cut off.");
  }
  return new TextDecoder().decode(bytes);
}
