import { generateKeyPairSync, sign } from 'node:crypto';

/** A self-signed certificate for `localhost` (X.509 v1, RFC 5280), and its key. */
export function selfSigned(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = tlv(0x30, Buffer.from('06082a8648ce3d040302', 'hex'));
  const commonName = tlv(0x30, Buffer.concat([Buffer.from('0603550403', 'hex'), tlv(0x0c, Buffer.from('localhost'))]));
  const name = tlv(0x30, tlv(0x31, commonName));
  const time = (text: string) => tlv(0x17, Buffer.from(text));
  const content = tlv(
    0x30,
    Buffer.concat([
      tlv(0x02, Buffer.from([1])),
      ecdsaWithSha256,
      name,
      tlv(0x30, Buffer.concat([time('200101000000Z'), time('491231235959Z')])),
      name,
      publicKey.export({ type: 'spki', format: 'der' }),
    ]),
  );
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', content, privateKey)]);
  const der = tlv(0x30, Buffer.concat([content, ecdsaWithSha256, tlv(0x03, signature)]));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'),
  };
}

/** One value of DER (X.690, 8.1). */
function tlv(tag: number, value: Buffer): Buffer {
  const { length } = value;
  const head =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), value]);
}
