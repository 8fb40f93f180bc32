export const TrainingView = () => null;
