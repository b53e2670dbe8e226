import { z } from 'zod';
import { optional, type SettingsOf, setting } from '../base/settings.ts';

/** Its error does not repeat the address, which holds a password. */
const postgresUrl = z.string().refine((text) => {
  const { protocol, pathname } = URL.canParse(text) ? new URL(text) : { protocol: '', pathname: '' };
  return ['postgres:', 'postgresql:'].includes(protocol) && pathname.length > 1;
}, 'must be the address of a PostgreSQL database, postgres://user:password@host:5432/database; leave it out for the one in the data folder');

export const databaseSettings = {
  /** PostgreSQL, with its password; null: the SQLite file in the data folder. */
  databaseUrl: setting('MDS_DATABASE_URL', optional(postgresUrl)),
};
export type DatabaseSettings = SettingsOf<typeof databaseSettings>;
