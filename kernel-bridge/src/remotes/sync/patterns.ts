/** The patterns of rsync's --include and --exclude, for a folder that is compared without rsync. */

/** Whether a path relative to the folder is left out; the first pattern that matches decides. */
export type LeavesOut = (path: string, isFolder: boolean) => boolean;

/** What is in a folder that is left out is left out too. */
export function patternsOf(include: readonly string[], exclude: readonly string[]): LeavesOut {
  const rules = [
    ...include.map(pattern => ({ matches: matcher(pattern), isOut: false })),
    ...exclude.map(pattern => ({ matches: matcher(pattern), isOut: true }))
  ];
  const judged = (path: string, isFolder: boolean): boolean =>
    rules.find(({ matches }) => matches(path, isFolder))?.isOut ?? false;
  return (path, isFolder) => {
    const parts = path.split('/');
    const isBelow = parts.slice(0, -1).some((_, at) => judged(parts.slice(0, at + 1).join('/'), true));
    return isBelow || judged(path, isFolder);
  };
}

/**
 * As rsync's manual has it: `/` in front ties the pattern to the folder, `/` behind means folders only, and a pattern with neither `/`
 * nor `**` is for the last part of the path.
 */
function matcher(pattern: string): LeavesOut {
  const isForFolders = pattern.endsWith('/');
  const isTied = pattern.startsWith('/');
  const body = pattern.replace(/^\//, '').replace(/\/$/, '');
  const isPath = isTied || body.includes('/') || body.includes('**');
  // `folder/***` is the folder and all that is in it.
  const source = body.endsWith('/***') ? `${sourceOf(body.slice(0, -4))}(?:/.*)?` : sourceOf(body);
  const regex = new RegExp(`${isTied ? '^' : '(?:^|/)'}${source}$`);
  return (path, isFolder) =>
    (isFolder || !isForFolders) && regex.test(isPath ? path : (path.split('/').at(-1) ?? ''));
}

function sourceOf(pattern: string): string {
  return pattern.replace(
    /\\(.)|\*{2,}|\*|\?|\[(!|\^)?((?:\\.|[^\]\\])+)\]|[.+^${}()|[\]\\]/g,
    (found: string, escaped?: string, not?: string, set?: string) => {
      if (escaped !== undefined) return escaped.replace(/[^\w]/g, '\\$&');
      if (found.startsWith('**')) return '.*';
      if (found === '*') return '[^/]*';
      if (found === '?') return '[^/]';
      if (set !== undefined) return `[${not === undefined ? '' : '^/'}${set.replaceAll('[', '\\[')}]`;
      return `\\${found}`;
    }
  );
}
