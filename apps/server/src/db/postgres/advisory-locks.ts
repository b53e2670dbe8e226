/** First number of advisory locks that are ours ("MDS"); those of one number are another space and cannot meet them. */
export const ADVISORY_CLASS = 0x4d4453;
/** Second numbers: who brings the schema up to date, who writes events, and who says which deployment a new database is of. */
export const MIGRATION_LOCK = 1;
export const EVENTS_LOCK = 2;
export const DEPLOYMENT_LOCK = 3;
