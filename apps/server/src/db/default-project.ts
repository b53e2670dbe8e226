/** Id of the project that requests belong to if no project has their host. */
export const DEFAULT_PROJECT = 'default';
