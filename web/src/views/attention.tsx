export const AttentionView = () => null;
