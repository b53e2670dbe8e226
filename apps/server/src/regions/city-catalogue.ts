import type { RegionIdentity } from './region-identity.ts';

/** The built-in cities, as `code, name, zone, country`. A code is the city's airport or common short name and a digit. */
const CITIES = `
ams1, Amsterdam, europe-west, NL
arn1, Stockholm, europe-north, SE
ath1, Athens, europe-south, GR
bcn1, Barcelona, europe-south, ES
ber1, Berlin, europe-central, DE
bru1, Brussels, europe-west, BE
bud1, Budapest, europe-central, HU
cph1, Copenhagen, europe-north, DK
dub1, Dublin, europe-west, IE
fra1, Frankfurt, europe-central, DE
hel1, Helsinki, europe-north, FI
ist1, Istanbul, europe-east, TR
kbp1, Kyiv, europe-east, UA
lis1, Lisbon, europe-south, PT
lon1, London, europe-west, GB
mad1, Madrid, europe-south, ES
mil1, Milan, europe-south, IT
muc1, Munich, europe-central, DE
osl1, Oslo, europe-north, NO
par1, Paris, europe-west, FR
prg1, Prague, europe-central, CZ
rom1, Rome, europe-south, IT
sof1, Sofia, europe-east, BG
vie1, Vienna, europe-central, AT
waw1, Warsaw, europe-east, PL
zrh1, Zurich, europe-central, CH
atl1, Atlanta, america-east, US
bog1, Bogota, america-south, CO
bos1, Boston, america-east, US
bue1, Buenos Aires, america-south, AR
chi1, Chicago, america-central, US
dal1, Dallas, america-central, US
den1, Denver, america-central, US
iad1, Ashburn, america-east, US
lax1, Los Angeles, america-west, US
lim1, Lima, america-south, PE
mex1, Mexico City, america-central, MX
mia1, Miami, america-east, US
mtl1, Montreal, america-east, CA
nyc1, New York, america-east, US
rio1, Rio de Janeiro, america-south, BR
sao1, Sao Paulo, america-south, BR
scl1, Santiago, america-south, CL
sea1, Seattle, america-west, US
sfo1, San Francisco, america-west, US
sjc1, San Jose, america-west, US
tor1, Toronto, america-east, CA
van1, Vancouver, america-west, CA
bkk1, Bangkok, asia-southeast, TH
blr1, Bengaluru, asia-south, IN
bom1, Mumbai, asia-south, IN
del1, Delhi, asia-south, IN
han1, Hanoi, asia-southeast, VN
hkg1, Hong Kong, asia-east, HK
jkt1, Jakarta, asia-southeast, ID
khi1, Karachi, asia-south, PK
kul1, Kuala Lumpur, asia-southeast, MY
mnl1, Manila, asia-southeast, PH
osa1, Osaka, asia-northeast, JP
sel1, Seoul, asia-northeast, KR
sin1, Singapore, asia-southeast, SG
tpe1, Taipei, asia-east, TW
tyo1, Tokyo, asia-northeast, JP
akl1, Auckland, oceania-southeast, NZ
mel1, Melbourne, oceania-southeast, AU
per1, Perth, oceania-west, AU
syd1, Sydney, oceania-southeast, AU
auh1, Abu Dhabi, middleeast-south, AE
doh1, Doha, middleeast-south, QA
dxb1, Dubai, middleeast-south, AE
ruh1, Riyadh, middleeast-central, SA
tlv1, Tel Aviv, middleeast-west, IL
cai1, Cairo, africa-north, EG
cpt1, Cape Town, africa-south, ZA
jnb1, Johannesburg, africa-south, ZA
los1, Lagos, africa-west, NG
nbo1, Nairobi, africa-east, KE
`;

/** Every city that a node may name by its code alone, in no promised order. */
export const cityCatalogue: readonly RegionIdentity[] = CITIES.trim()
  .split('\n')
  .map((line) => {
    const [code = '', name = '', zone = '', country = ''] = line.split(', ');
    return { code, name, zone, country };
  });

const byCode = new Map(cityCatalogue.map((city) => [city.code, city]));

/** The city with this code, or null. */
export function findCity(code: string): RegionIdentity | null {
  return byCode.get(code) ?? null;
}
