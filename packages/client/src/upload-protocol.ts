import type { MEDIA_CREATED_HEADER, MEDIA_ID_HEADER, PROBLEM_CODE_HEADER } from '@mds/contract';

// Copies of the contract's constants for uploads, so that its schemas need not be loaded. Types and a test keep them equal.

/** Path of uploads. */
export const UPLOADS_PATH = '/control/v1/uploads';

/** Header with the id of the media object that an upload became. */
export const MEDIA_ID: typeof MEDIA_ID_HEADER = 'MDS-Media-Id';
/** Header: `false` if the project already had the bytes. */
export const MEDIA_CREATED: typeof MEDIA_CREATED_HEADER = 'MDS-Media-Created';
/** Header with the problem code, for answers without a body, such as to HEAD. */
export const PROBLEM_CODE: typeof PROBLEM_CODE_HEADER = 'MDS-Problem-Code';
