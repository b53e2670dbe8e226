import { MEDIA_ID_HEADER, UPLOADS_PATH } from '@mds/contract';
import { type HttpRequest, type HttpResponse, Upload, type UploadOptions } from 'tus-js-client';

/** The result of an upload by tus-js-client. */
export interface Uploaded {
  url: string;
  mediaId: string;
  /** Methods and statuses of the responses, in order: `POST 201`. */
  answers: string[];
}

/** Uploads with tus-js-client. @throws its DetailedError */
export function tusUpload(
  service: { url: string; token: string },
  file: Buffer,
  options: Partial<UploadOptions> = {},
): Promise<Uploaded> {
  const answers: string[] = [];
  let mediaId = '';
  return new Promise((resolve, reject) => {
    const upload: Upload = new Upload(file, {
      endpoint: `${service.url}${UPLOADS_PATH}`,
      headers: { authorization: `Bearer ${service.token}` },
      retryDelays: Array.from({ length: 60 }, () => 100),
      ...options,
      onAfterResponse: (req: HttpRequest, res: HttpResponse) => {
        answers.push(`${req.getMethod()} ${res.getStatus()}`);
        mediaId = res.getHeader(MEDIA_ID_HEADER) ?? mediaId;
      },
      onSuccess: () => resolve({ url: upload.url ?? '', mediaId, answers }),
      onError: reject,
    });
    upload.start();
  });
}
