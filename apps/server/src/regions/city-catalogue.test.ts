import { Region } from '@mds/contract';
import { describe, expect, it } from 'vitest';
import { readSettings } from '../base/settings.ts';
import { cityCatalogue, findCity } from './city-catalogue.ts';
import { resolveRegion, UnknownRegionError } from './region-setting.ts';
import { regionSettings } from './settings.ts';

describe('the city catalogue', () => {
  it('covers most operators, and every entry is a valid region of the API', () => {
    expect(cityCatalogue.length).toBeGreaterThanOrEqual(40);
    for (const city of cityCatalogue) {
      expect(Region.safeParse({ ...city, status: 'operational' }).error, city.code).toBeUndefined();
      expect(city.code).toMatch(/^[a-z]{3}1$/);
      expect(city.name).toMatch(/^[A-Z][A-Za-z ]+$/);
      expect(city.zone).toMatch(
        /^(europe|america|asia|oceania|middleeast|africa)-(north|south|east|west|central|northeast|southeast)$/,
      );
    }
  });

  it('has no code or name twice', () => {
    expect(new Set(cityCatalogue.map(({ code }) => code)).size).toBe(cityCatalogue.length);
    expect(new Set(cityCatalogue.map(({ name }) => name)).size).toBe(cityCatalogue.length);
  });

  it('contains the default region of a deployment without settings', () => {
    expect(findCity(readSettings(regionSettings, {}).region)).toMatchObject({
      name: 'Frankfurt',
      zone: 'europe-central',
      country: 'DE',
    });
    expect(findCity('toString')).toBeNull();
  });
});

describe('the region setting', () => {
  it('accepts the code of a city, or the description of another one', () => {
    expect(resolveRegion('sin1').name).toBe('Singapore');
    expect(resolveRegion('ham2:Hamburg:europe-north:DE')).toEqual({
      code: 'ham2',
      name: 'Hamburg',
      zone: 'europe-north',
      country: 'DE',
    });
  });

  it.each(['xyz9', '', 'FRA1', 'ham2:Hamburg', 'ham2::europe-north:DE'])(
    'lists the valid forms in the error for %j',
    (setting) => {
      expect(() => resolveRegion(setting)).toThrow(UnknownRegionError);
      expect(() => resolveRegion(setting)).toThrow(/fra1.*code:City:area-direction:CC/);
    },
  );
});
