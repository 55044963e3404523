"""The steps of a run, in their order: plan, stage, prove, publish, roll back."""
