/** Reads the binary columns in which the server sends nodes. */

const MAGIC = "BERTHC1\n";
const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };

/**
 * @param {ArrayBuffer} buffer
 * @returns {{header: Object, column: function(string): TypedArray, names: Array<string>}}
 */
export function readColumns(buffer) {
  const decoder = new TextDecoder();
  if (decoder.decode(new Uint8Array(buffer, 0, Math.min(8, buffer.byteLength))) !== MAGIC) {
    throw new Error("the server sent nodes in a form that this page does not know: reload it");
  }
  const length = new DataView(buffer).getUint32(8, true);
  const header = JSON.parse(decoder.decode(new Uint8Array(buffer, 12, length)));
  const data = Math.ceil((12 + length) / 8) * 8;
  const described = new Map(header.columns.map((column) => [column.name, column]));
  const column = (name) => {
    const { type, offset, length: size } = described.get(name);
    const Type = TYPES[type];
    const start = data + offset;
    return start % Type.BYTES_PER_ELEMENT === 0
      ? new Type(buffer, start, size / Type.BYTES_PER_ELEMENT)
      : new Type(buffer.slice(start, start + size));
  };
  return { header, column, names: readNames(column("names"), column("nameEnd"), decoder) };
}

function readNames(bytes, ends, decoder) {
  const text = decoder.decode(bytes);
  const names = new Array(ends.length);
  // Without other characters than ASCII, positions in the text are those of the bytes.
  const isAscii = text.length === bytes.length;
  for (let i = 0, start = 0; i < ends.length; i++) {
    names[i] = isAscii ? text.slice(start, ends[i]) : decoder.decode(bytes.subarray(start, ends[i]));
    start = ends[i];
  }
  return names;
}
