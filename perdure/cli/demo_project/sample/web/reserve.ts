export async function reserve(isbn: string): Promise<boolean> {
  // TODO: show a message when the server does not answer
  // FIXME `isbn` must be escaped: a "?" in it ends the path
  const answer = await fetch(`/reserve/${isbn}`, { method: "POST" });
  return answer.ok;
}
