export const LayersView = () => null;
