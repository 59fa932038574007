"""The pages of people, rounds and the annotator."""

urlpatterns: list = []
