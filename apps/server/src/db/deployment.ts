import { ulid } from 'ulid';

/** The deployment that a database belongs to, wherever it is moved. */
export interface Deployment {
  /** Made once, when the database is first opened. */
  id: string;
  /** Whether it had any media object when it was opened. */
  hasMedia: boolean;
}

/** Makes the id of a new deployment. */
export function newDeploymentId(): string {
  return `dep_${ulid().toLowerCase()}`;
}
