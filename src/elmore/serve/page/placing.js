// Where the reader's own sentence belongs: the senses of its nearest uses vote, and its mark stands
// among the three nearest of them.

const BESIDE = 3;

/** `near` are uses with a score, the nearest first; `points` are the uses on the map. Null where
 * none of them is on the map. */
export function place(near, points) {
  const known = new Map(points.map((use) => [use.id, use]));
  const voters = near.filter(({ id }) => known.has(id))
    .map(({ id, score }) => ({ ...known.get(id), weight: Math.max(score, 0.01) }));
  if (!voters.length) return null;
  const votes = Map.groupBy
    ? Map.groupBy(voters, ({ sense }) => sense)
    : voters.reduce((all, use) => all.set(use.sense, [...(all.get(use.sense) ?? []), use]), new Map());
  const [sense, agreeing] = [...votes].sort(([, a], [, b]) => total(b) - total(a))[0];
  const beside = voters.slice(0, BESIDE);
  const middle = (axis) =>
    beside.reduce((sum, use) => sum + use.weight * use[axis], 0) / total(beside);
  return { x: middle("x"), y: middle("y"), sense, votes: agreeing.length, of: voters.length };
}

const total = (uses) => uses.reduce((sum, { weight }) => sum + weight, 0);
