/** Path prefix of the read API. */
export const READ_API_PREFIX = '/api/v1';

/** Path prefix of the control API. */
export const CONTROL_API_PREFIX = '/control/v1';
