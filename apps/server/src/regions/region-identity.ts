/** A point of presence: its short code, city, zone (area and direction) and country (ISO 3166-1 alpha-2). */
export interface RegionIdentity {
  code: string;
  name: string;
  zone: string;
  country: string;
}
