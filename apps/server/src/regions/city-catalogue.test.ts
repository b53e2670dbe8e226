import { Region } from '@mds/contract';
import { describe, expect, it } from 'vitest';
import { readSettings } from '../base/settings.ts';
import { cityCatalogue, findCity } from './city-catalogue.ts';
import { resolveRegion, UnknownRegionError } from './region-setting.ts';
import { regionSettings } from './settings.ts';

describe('the city catalogue', () => {
  it('has a place for most operators, and every entry is a region that the API may show', () => {
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

  it('never means two places by one code, or one place by two', () => {
    expect(new Set(cityCatalogue.map(({ code }) => code)).size).toBe(cityCatalogue.length);
    expect(new Set(cityCatalogue.map(({ name }) => name)).size).toBe(cityCatalogue.length);
  });

  it('knows the region that a deployment without settings is in', () => {
    expect(findCity(readSettings(regionSettings, {}).region)).toMatchObject({
      name: 'Frankfurt',
      zone: 'europe-central',
      country: 'DE',
    });
    expect(findCity('toString')).toBeNull();
  });
});

describe('the region setting', () => {
  it('names a city by its code, or describes one of the operator’s own', () => {
    expect(resolveRegion('sin1').name).toBe('Singapore');
    expect(resolveRegion('ham2:Hamburg:europe-north:DE')).toEqual({
      code: 'ham2',
      name: 'Hamburg',
      zone: 'europe-north',
      country: 'DE',
    });
  });

  it.each(['xyz9', '', 'FRA1', 'ham2:Hamburg', 'ham2::europe-north:DE'])(
    'says what can be written instead of %j',
    (setting) => {
      expect(() => resolveRegion(setting)).toThrow(UnknownRegionError);
      expect(() => resolveRegion(setting)).toThrow(/fra1.*code:City:area-direction:CC/);
    },
  );
});
