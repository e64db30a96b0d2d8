/** Position of our category in the launcher: before Lab's own, of which "Notebook" has 0. */
export const CATEGORY_RANK = -1;
