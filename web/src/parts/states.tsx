/** What a view shows when there is nothing yet, something is under way, or something is wrong. */

import type { ComponentChildren } from "preact";

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;

export const Wrong = ({ children }: { children: ComponentChildren }) => (
  <p class="wrong" role="alert">
    {children}
  </p>
);

export const Waiting = ({ children = "working …" }: { children?: ComponentChildren }) => (
  <p class="waiting" role="status">
    <span class="spinner" aria-hidden="true" />
    {children}
  </p>
);
