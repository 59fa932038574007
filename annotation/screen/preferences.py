"""The form of a person's own settings on the screen."""

from django import forms

from judging.models.projects import Preferences


class PreferencesForm(forms.ModelForm):
    class Meta:
        model = Preferences
        fields = ["one_key_submit", "link_scroll", "serif"]
