import type { MEDIA_CREATED_HEADER, MEDIA_ID_HEADER, PROBLEM_CODE_HEADER } from '@mds/contract';

// What is ours about uploads, as the contract has it, which is not loaded for it. The types keep them the same.

/** Where uploads go. */
export const UPLOADS_PATH = '/control/v1/uploads';

/** Names the media object that an upload became. */
export const MEDIA_ID: typeof MEDIA_ID_HEADER = 'MDS-Media-Id';
/** Whether the upload made it: `false` where the project had its bytes already. */
export const MEDIA_CREATED: typeof MEDIA_CREATED_HEADER = 'MDS-Media-Created';
/** What says the code of a problem where there is no body to say it: on the answer to a HEAD. */
export const PROBLEM_CODE: typeof PROBLEM_CODE_HEADER = 'MDS-Problem-Code';
