/** First number of our advisory locks ("MDS"). Locks with a single number are in another space. */
export const ADVISORY_CLASS = 0x4d4453;
/** Second numbers: of the lock for migrations, for the order of events, and for the id of a new deployment. */
export const MIGRATION_LOCK = 1;
export const EVENTS_LOCK = 2;
export const DEPLOYMENT_LOCK = 3;
