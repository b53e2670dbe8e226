/** The project of hosts that belong to no other. */
export const DEFAULT_PROJECT = 'default';

/** Its record, until an operator renames it. */
export const DEFAULT_PROJECT_RECORD = { id: DEFAULT_PROJECT, name: 'Default' };
