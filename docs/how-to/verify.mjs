// Return the text of a signed release file, or throw an error.

import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";

function refuse(why) {
  throw new Error(`not verified: ${why}`);
}

function decoded(text) {                       // both alphabets of base64
  if (typeof text !== "string" || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) refuse("this is not base64");
  return Buffer.from(text, "base64");
}

export function verified(file, key) {                 // text of the release
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file));
  for (const name of ["payload", "payloadType"]) {
    if (text.split(`"${name}"`).length !== 2) refuse("a name is missing or appears twice");
  }
  if (text.includes("\\")) refuse("an escape could hide a name");
  const envelope = JSON.parse(text);
  const type = envelope.payloadType;
  if (type !== "application/vnd.dpcov.release+json") refuse("wrong type");
  const payload = decoded(envelope.payload);
  const head = `DSSEv1 ${Buffer.byteLength(type)} ${type} ${payload.length} `;
  const signed = Buffer.concat([Buffer.from(head), payload]);
  const signatures = envelope.signatures.map((one) => decoded(one.sig));
  const known = createPublicKey(readFileSync(key));
  if (known.asymmetricKeyType !== "ed25519") refuse("the key has another type");
  if (!signatures.some((one) => verify(null, signed, known, one))) refuse("no signature of this key");
  return payload.toString("utf8");
}
