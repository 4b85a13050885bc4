// The critical path of a round: who made it as long as it was, followed backwards from its last act.

/** The last act of a site that had ended at a time (waits and what takes no time do not count); -1 if there is none. */
function lastBefore(spans, site, time, slack, earliest) {
  const [low, high] = spans.range(site, earliest - slack, time + slack);
  let found = -1;
  for (let i = low; i < high; i += 1) {
    const fits = spans.kind[i] !== WAIT && spans.end[i] <= time + slack && spans.end[i] > earliest + slack && spans.length[i] > 0;
    if (fits && (found < 0 || spans.end[i] > spans.end[found])) found = i;
  }
  return found;
}

/** The wait of a site that ended at a time, which says for whom it waited; -1 if it did not wait. */
function waitEndingAt(spans, site, time, slack) {
  const [low, high] = spans.range(site, time - spans.longest[site], time + slack);
  for (let i = low; i < high; i += 1) {
    if (spans.kind[i] === WAIT && Math.abs(spans.end[i] - time) <= slack) return i;
  }
  return -1;
}

/** The acts of one round that follow from each other without a pause, from the first to the last. */
function criticalPath(spans, round) {
  let begin = Infinity, last = -1;
  for (let i = 0; i < spans.count; i += 1) {
    if (spans.round[i] !== round) continue;
    if (spans.start[i] < begin) begin = spans.start[i];
    const better = last < 0 || spans.end[i] > spans.end[last] || (spans.end[i] === spans.end[last] && spans.start[i] < spans.start[last]);
    if (spans.kind[i] !== WAIT && spans.length[i] > 0 && better) last = i;
  }
  if (last < 0) return null;
  const slack = 1e-6 * Math.max(1, spans.end[last] - begin, Math.abs(spans.end[last]) * 1e-3);
  const path = [last];
  while (path.length < 10000) {
    const now = path[path.length - 1], time = spans.start[now];
    if (time <= begin + slack) break;
    // A transfer begins when both ends are ready; whoever waited was not the one it hung on.
    const ends = spans.peer[now] >= 0 && (spans.kind[now] === 1 || spans.kind[now] === 2) ? [spans.site[now], spans.peer[now]] : [spans.site[now]];
    const causes = ends.map((site) => waitEndingAt(spans, site, time, slack)).filter((i) => i >= 0 && spans.peer[i] >= 0).map((i) => spans.peer[i]);
    let before = -1;
    for (const site of [...causes, ...ends]) {
      const found = lastBefore(spans, site, time, slack, begin);
      if (found >= 0 && found !== now && spans.start[found] < time && (before < 0 || spans.end[found] > spans.end[before] + slack)) before = found;
    }
    if (before < 0) break;
    path.push(before);
  }
  path.reverse();
  return { round, begin, end: spans.end[last], path };
}

/** The path in words: the round's length and who has how much of it. */
function pathTold(spans, found) {
  const sums = new Map();
  let covered = 0;
  for (const i of found.path) {
    // What had begun before the round counts from the round's beginning on.
    const key = `${spans.names[spans.site[i]]}: ${KINDS[spans.kind[i]]}`, length = spans.end[i] - Math.max(spans.start[i], found.begin);
    sums.set(key, (sums.get(key) || 0) + length);
    covered += length;
  }
  const parts = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([key, length]) => `${key} ${plain(length)} s`);
  const rest = found.end - found.begin - covered;
  if (rest > 1e-3 * (found.end - found.begin)) parts.push(`pauses nobody is booked for ${plain(rest)} s`);
  return `Round ${found.round} took ${plain(found.end - found.begin)} s (${plain(found.begin)} to ${plain(found.end)}): ${parts.join("; ")}.`;
}
