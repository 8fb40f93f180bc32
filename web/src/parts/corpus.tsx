/** The choice of a corpus, and the way to bring one's own. */

import { useRef, useState } from "preact/hooks";
import { address } from "../address";
import { api } from "../api";
import { errorText } from "../queries";
import { offered, renewStart } from "../start";
import type { Corpus } from "../types";
import { Field } from "./fields";
import { Wrong } from "./states";

const ENDINGS = ".csv,.tsv,.txt,.jsonl";

interface Props {
  value: string;
  onChange: (id: string) => void;
  only?: (corpus: Corpus) => boolean;
  name?: string;
}

export function ChooseCorpus({ value, onChange, only = () => true, name = "corpus" }: Props) {
  const [error, setError] = useState("");
  const picker = useRef<HTMLInputElement>(null);
  const corpora = offered().corpora.filter(only);
  const chosen = corpora.find(each => each.id === value);
  const bring = async (file: File | undefined) => {
    if (!file) return;
    const { view } = address.value;
    setError("");
    try {
      const { upload_bytes } = offered().limits;
      if (file.size > upload_bytes) throw new Error();
      const corpus = await api.upload(file);
      await renewStart();
      if (address.value.view !== view) return;
      if (only(corpus)) onChange(corpus.id);
      else setError(`${corpus.name} is stored, but this view needs pairs, or scored pairs, and it has none`);
    } catch (failure) {
      setError(
        failure instanceof Error && failure.message === ""
          ? `a corpus has at most ${offered().limits.upload_bytes.toLocaleString("en")} bytes; choose a smaller file`
          : errorText(failure),
      );
    }
    if (picker.current) picker.current.value = "";
  };
  const remove = async () => {
    try {
      await api.removeCorpus(value);
      await renewStart();
      onChange("");
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  return (
    <>
      <Field name={name}>
        <select aria-label={name} value={value} onChange={event => onChange(event.currentTarget.value)}>
          {!chosen && <option value="">choose a corpus</option>}
          {corpora.map(each => (
            <option key={each.id} value={each.id} selected={each.id === value}>
              {each.name} ({each.rows.toLocaleString("en")} {each.pairs ? "pairs" : "texts"})
            </option>
          ))}
        </select>
      </Field>
      <label class="button">
        Upload …
        <input
          ref={picker}
          type="file"
          accept={ENDINGS}
          class="hidden"
          onChange={event => bring(event.currentTarget.files?.[0])}
        />
      </label>
      {chosen?.own && <button onClick={remove}>Remove</button>}
      {error && <Wrong>{error}</Wrong>}
    </>
  );
}
