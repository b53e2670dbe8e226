/** Path prefix of the control API. */
export const CONTROL_API_PREFIX = '/control/v1';
