import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A rule of the allow-list: a name, or a range of addresses. */
type AllowRule = { name: string } | { range: [Address, number] };

/** Decides which addresses the service may connect to on behalf of a client. */
export interface AddressFilter {
  /**
   * Whether a connection to this address is permitted.
   * @param address from a resolver, or from a URL without brackets
   * @param hostname from the URL, in lower case: it is compared with names of the allow-list
   */
  permits(address: string, hostname: string): boolean;
}

/** A label is letters, digits, hyphens and underscores; internationalised names are given in their ASCII form. */
const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

/** Reads an entry of the allow-list: a CIDR range, an address or a host name. Null: it is none of them. */
export function allowRuleOf(entry: string): AllowRule | null {
  const text = entry.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text)) {
    return { range: ipaddr.parseCIDR(text) };
  }
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return { range: [ipaddr.IPv4.parse(text), 32] };
  const address = parsed(text);
  if (address !== null) return { range: [address, 128] };
  // A name that looks like a number is a mistyped address.
  if (/^[\d.]+$/.test(text) || !HOST_NAME.test(text)) return null;
  return { name: text };
}

/**
 * Azure's WireServer has a public address, but answers every virtual machine about itself
 * (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16). Other clouds use link-local ones.
 */
const WIRE_SERVER = '168.63.129.16';

/** The addresses of this machine. Its services may trust connections that come from itself. */
function addressesOfMachine(): string[] {
  return Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
}

/**
 * {@link AddressFilter} for public unicast addresses, except those of this machine, and for the entries of the allow-list.
 * @param allow entries that {@link allowRuleOf} understands
 * @param own returns the addresses of this machine; asked each time, because they change
 */
export function createAddressFilter(allow: readonly string[], own = addressesOfMachine): AddressFilter {
  const rules = allow.map((entry) => {
    const rule = allowRuleOf(entry);
    if (rule === null) throw new TypeError(`${entry} is neither a range, nor an address, nor a host name`);
    return rule;
  });
  const isNamed = (hostname: string) => rules.some((rule) => 'name' in rule && rule.name === hostname);
  const isInRange = (address: Address) =>
    rules.some((rule) => 'range' in rule && rule.range[0].kind() === address.kind() && matches(address, rule.range));

  return {
    permits(text, hostname) {
      const address = parsed(text);
      if (address === null) return false;
      if (isNamed(hostname.replace(/\.$/, ''))) return true;
      const plain = unwrapped(address);
      if (isInRange(address) || isInRange(plain)) return true;
      return isPublic(plain) && ![WIRE_SERVER, ...own()].some((one) => isSame(one, plain));
    },
  };
}

/** Null if it is not an address. A zone (`fe80::1%eth0`) is that of a link, which is not public either. */
function parsed(text: string): Address | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (!isIPv6(text) || text.includes('%')) return null;
  // In one spelling, without dots: ipaddr.js takes ::8.8.8.8 for ::ffff:8.8.8.8, and the system does not.
  return ipaddr.IPv6.parse(new URL(`http://[${text}]/`).hostname.slice(1, -1));
}

function isSame(text: string, address: Address): boolean {
  return parsed(text)?.toNormalizedString() === address.toNormalizedString();
}

function matches(address: Address, [base, bits]: [Address, number]): boolean {
  return address.kind() === 'ipv4'
    ? (address as ipaddr.IPv4).match(base as ipaddr.IPv4, bits)
    : (address as ipaddr.IPv6).match(base as ipaddr.IPv6, bits);
}

/** The IPv4 address that an IPv6 address is only another spelling of: IPv4-mapped (RFC 4291, 2.5.5.2) and NAT64 (RFC 6052, 2.1). */
function unwrapped(address: Address): Address {
  if (address.kind() === 'ipv4') return address;
  const bytes = address.toByteArray();
  const isNat64 = bytes.slice(0, 12).join() === '0,100,255,155,0,0,0,0,0,0,0,0';
  return address.range() === 'ipv4Mapped' || isNat64 ? new ipaddr.IPv4(bytes.slice(12)) : address;
}

/**
 * Whether an address is one of the public internet: unicast by the IANA registries of special-purpose addresses, and with no
 * other address inside to which a tunnel would carry the packets.
 */
function isPublic(address: Address): boolean {
  const range = address.range();
  if (address.kind() === 'ipv4') return range === 'unicast';
  const bytes = address.toByteArray();
  const ipv4At = (at: number, mask = 0) => new ipaddr.IPv4(bytes.slice(at, at + 4).map((byte) => byte ^ mask));
  // RFC 3056, 2: the site's router.
  if (range === '6to4') return isPublic(ipv4At(2));
  // RFC 4380, 4: the server, and the client with every bit turned.
  if (range === 'teredo') return isPublic(ipv4At(4)) && isPublic(ipv4At(12, 0xff));
  // RFC 5214, 6.1: an ISATAP interface identifier ends in the host's IPv4 address.
  const isIsatap = ((bytes[8] ?? 0) & 0xfd) === 0 && bytes.slice(9, 12).join() === '0,94,254';
  if (isIsatap && !isPublic(ipv4At(12))) return false;
  // RFC 4291, 2.4, and IANA: of all unicast space, only 2000::/3 is allocated. Everything outside is refused, including IPv4-compatible
  // addresses.
  return range === 'unicast' && ((bytes[0] ?? 0) & 0xe0) === 0x20;
}
