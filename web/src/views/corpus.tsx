export const CorpusView = () => null;
