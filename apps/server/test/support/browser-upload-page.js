// Runs in the browser, in browser-upload.test.ts: a page that uploads a file of its own server.

import { createClient } from '@mds/client';
import Uppy from '@uppy/core';
import UppyTus from '@uppy/tus';
import * as tus from 'tus-js-client';

async function file() {
  const answer = await fetch('/content');
  return new File([await answer.blob()], 'noise.png', { type: 'image/png' });
}

/** Uploads with this project's client; `stopAt`: bytes that the service has when the upload is aborted. */
globalThis.uploadByClient = async (
  service,
  token,
  { stopAt = Number.POSITIVE_INFINITY, streamed = false, timeoutMs, ...options },
) => {
  const content = await file();
  const stop = new AbortController();
  const reports = [];
  const onProgress = (progress) => {
    reports.push(progress);
    if (progress.acceptedBytes >= stopAt) stop.abort(new Error('stopped'));
  };
  const body = streamed ? content.stream() : content;
  try {
    const { media, created } = await createClient({ baseUrl: service, token, timeoutMs }).control.media.upload(body, {
      filename: content.name,
      signal: stop.signal,
      onProgress,
      ...options,
    });
    return { id: media.id, created, reports, kept: localStorage.length };
  } catch (error) {
    return { error: `${error.name}: ${error.message}`, code: error.code ?? null, reports, kept: localStorage.length };
  }
};

/** Uploads with tus-js-client. */
globalThis.uploadByTus = async (service, token) => {
  const content = await file();
  return new Promise((resolve, reject) => {
    const upload = new tus.Upload(content, {
      endpoint: `${service}/control/v1/uploads`,
      headers: { Authorization: `Bearer ${token}` },
      metadata: { filename: content.name, filetype: content.type },
      onError: reject,
      onSuccess: ({ lastResponse }) => resolve(lastResponse.getHeader('MDS-Media-Id')),
    });
    upload.start();
  });
};

/** Uploads with Uppy's tus plugin. */
globalThis.uploadByUppy = async (service, token) => {
  const content = await file();
  let id = null;
  const uppy = new Uppy().use(UppyTus, {
    endpoint: `${service}/control/v1/uploads`,
    headers: { Authorization: `Bearer ${token}` },
    onAfterResponse: (_, response) => {
      id = response.getHeader('MDS-Media-Id') ?? id;
    },
  });
  uppy.addFile({ name: content.name, type: content.type, data: content });
  const { successful = [], failed = [] } = await uppy.upload();
  return { id, successful: successful.length, failed: failed.map(({ error }) => error) };
};
