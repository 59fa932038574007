"""The pages of projects, examples and runs."""

urlpatterns: list = []
