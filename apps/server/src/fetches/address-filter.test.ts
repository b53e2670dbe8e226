import { describe, expect, it } from 'vitest';
import { allowRuleOf, createAddressFilter } from './address-filter.ts';

const NOT_PUBLIC = [
  ...['127.0.0.1', '127.255.255.254', '0.0.0.0', '0.1.2.3', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
  ...['100.64.0.1', '100.127.255.255', '169.254.0.1', '169.254.169.254', '192.0.0.1', '192.0.2.1', '198.18.0.1'],
  ...['198.51.100.1', '203.0.113.1', '192.88.99.1', '224.0.0.1', '239.255.255.255', '240.0.0.1', '255.255.255.255'],
  // Unspecified, loopback, link-local with and without its zone, unique local, site-local, multicast.
  ...['::', '::1', 'fe80::1', 'fe80::1%eth0', 'febf::1', 'fc00::1', 'fd00:ec2::254', 'fec0::1', 'ff02::1'],
  // IPv4-mapped in both spellings, IPv4-compatible, IPv4-translated (RFC 2765).
  ...['::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:169.254.169.254', '::ffff:10.0.0.1', '0:0:0:0:0:ffff:c0a8:0101'],
  ...['::127.0.0.1', '::7f00:1', '::8.8.8.8', '::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8'],
  // 6to4, NAT64 (well-known and local-use prefix), Teredo (server; client with its bits turned), ISATAP.
  ...['2002:7f00:1::', '2002:a9fe:a9fe::1', '2002:c0a8:101::1', '64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe'],
  ...[
    '64:ff9b:1::8.8.8.8',
    '2001:0:7f00:1::f7f7:f7f7',
    '2001:0:808:808:0:0:80ff:fffe',
    '2a00::5efe:7f00:1',
    '2a00::200:5efe:a00:1',
  ],
  // Documentation, discard, benchmarking, ORCHID, segment routing, unassigned.
  ...['2001:db8::1', '3fff::1', '100::1', '2001:2::1', '2001:20::1', '5f00::1', '4000::1', '8000::1'],
  // Not addresses: the filter guesses nothing.
  ...['', 'localhost', '127.1', '0x7f.1', '0177.0.0.1', '2130706433', '[::1]', '1.2.3.4.5', '::ffff:127.1', 'fe80::1%'],
];

const PUBLIC = [
  ...['8.8.8.8', '1.1.1.1', '93.184.216.34', '172.32.0.1', '100.128.0.1', '169.253.255.255', '11.0.0.1', '192.0.1.1'],
  ...['2606:2800:220:1::1', '2a00:1450:4001::1', '2001:4860:4860::8888', '::ffff:8.8.8.8', '::ffff:808:808'],
  ...['64:ff9b::8.8.8.8', '2002:808:808::1', '2001:0:808:808:0:0:f7f7:f7f7', '2a00::5efe:808:808'],
];

describe('fault 9: addresses that may be connected to', () => {
  const { permits } = createAddressFilter([]);
  it.each(NOT_PUBLIC)('%j is refused', (address) => {
    expect(permits(address, 'example.org')).toBe(false);
  });

  it.each(PUBLIC)('%j is permitted as public', (address) => {
    expect(permits(address, 'example.org')).toBe(true);
  });
});

describe('fault 9: public addresses with services for this machine alone', () => {
  const own = () => ['127.0.0.1', '93.184.216.34', '2606:2800:220:1::1'];

  it.each(['168.63.129.16', '::ffff:168.63.129.16', '93.184.216.34', '64:ff9b::93.184.216.34', '2606:2800:220:1:0::1'])(
    '%j is refused',
    (address) => {
      expect(createAddressFilter([], own).permits(address, 'example.org')).toBe(false);
    },
  );

  it('are permitted by the allow-list, and their neighbours without it', () => {
    const { permits } = createAddressFilter(['93.184.216.34', 'me.test'], own);
    expect(permits('93.184.216.34', 'example.org')).toBe(true);
    expect(permits('2606:2800:220:1::1', 'me.test')).toBe(true);
    expect(permits('93.184.216.35', 'example.org')).toBe(true);
  });
});

describe('the allow-list of addresses', () => {
  it('permits its ranges and addresses, also as IPv4 in IPv6, and nothing else', () => {
    const { permits } = createAddressFilter(['10.1.0.0/16', '127.0.0.1', 'fd00::/8', '[::1]']);
    for (const address of ['10.1.2.3', '127.0.0.1', '::ffff:10.1.2.3', '64:ff9b::a01:203', 'fd12::1', '::1']) {
      expect([address, permits(address, 'x')]).toEqual([address, true]);
    }
    for (const address of ['10.2.0.1', '127.0.0.2', '::ffff:10.2.0.1', '2002:a01:203::1', 'fc00::1', '::2']) {
      expect([address, permits(address, 'x')]).toEqual([address, false]);
    }
  });

  it('permits a name at any address, and no other name', () => {
    const { permits } = createAddressFilter(['Files.intranet']);
    expect(permits('10.0.0.1', 'files.intranet')).toBe(true);
    expect(permits('10.0.0.1', 'files.intranet.')).toBe(true);
    expect(permits('10.0.0.1', 'other.intranet')).toBe(false);
    expect(permits('10.0.0.1', 'x.files.intranet')).toBe(false);
  });

  it.each([
    '',
    ' ',
    '10.0.0.0/33',
    '300.1.1.1',
    '10.0.0',
    'host:8080',
    'http://host',
    '*.intranet',
    '::1/129',
    '127.1',
  ])('rejects %j as an entry, so that a mistake is reported at startup', (entry) => {
    expect(allowRuleOf(entry)).toBeNull();
  });
});
